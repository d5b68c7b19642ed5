#!/bin/sh
# Roles of horovod-a100
# Run this as a user with permission to create roles: sh roles.sh vgpu-cfg@vsphere.local
set -eu
account=${1:?"specify the account"}
role() {
    if govc role.ls "$1" >/dev/null 2>&1
    then govc role.update "$@"; else govc role.create "$@"; fi
}
give() { govc permissions.set -principal "$account" -role "$1" -propagate="$2" "$3"; }

role vgpu-cfg-root System.Anonymous System.View System.Read Global.CancelTask
give vgpu-cfg-root false Folder:group-d1  # /
give vgpu-cfg-root true DistributedVirtualPortgroup:dvportgroup-7  # /dc1/network/it's

role 'vgpu-cfg'"'"'s hosts' System.Anonymous System.View System.Read Host.Config.Maintenance
give 'vgpu-cfg'"'"'s hosts' true ComputeResource:domain-s9  # /dc1/host/esx-09\x1b
give 'vgpu-cfg'"'"'s hosts' false VirtualMachine:vm-4  # /dc1/vm/ubuntu
# give 'vgpu-cfg'"'"'s hosts' true PATH, for the folder

give ReadOnly false Datastore:datastore-3  # /dc1/datastore/vsan
