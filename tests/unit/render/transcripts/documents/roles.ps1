# Roles of horovod-a100
# Run this after Connect-VIServer: ./roles.ps1 -Account 'VSPHERE.LOCAL\\vgpu-cfg'
param([Parameter(Mandatory = $true)][string]$Account)
$ErrorActionPreference = 'Stop'

$held = Get-VIPrivilege -Id 'Global.CancelTask'
$role = New-VIRole -Name 'vgpu-cfg-root' -Privilege $held
New-VIPermission -Principal $Account -Role $role -Propagate:$false -Entity (Get-Folder -Id 'Folder-group-d1')  # /
New-VIPermission -Principal $Account -Role $role -Propagate:$true -Entity (Get-VDPortgroup -Id 'DistributedVirtualPortgroup-dvportgroup-7')  # /dc1/network/it's

$held = Get-VIPrivilege -Id 'Host.Config.Maintenance'
$role = New-VIRole -Name 'vgpu-cfg''s hosts' -Privilege $held
New-VIPermission -Principal $Account -Role $role -Propagate:$true -Entity (Get-VMHost -Id 'ComputeResource-domain-s9')  # /dc1/host/esx-09\x1b
New-VIPermission -Principal $Account -Role $role -Propagate:$false -Entity (Get-Template -Id 'VirtualMachine-vm-4')  # /dc1/vm/ubuntu
# New-VIPermission -Principal $Account -Role $role -Propagate:$true -Entity (…), for the folder

$role = Get-VIRole -Name 'ReadOnly'
New-VIPermission -Principal $Account -Role $role -Propagate:$false -Entity (Get-Datastore -Id 'Datastore-datastore-3')  # /dc1/datastore/vsan
