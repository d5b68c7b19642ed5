# A template that vgpu-cfg can clone: EFI, VMware Tools, cloud-init with VMware's datasource, sshd, headers.
#
#   packer init examples/template
#   packer build -var vcenter_server=vc.example.com -var vcenter_username=... -var base=ubuntu-24.04-base examples/template
#
# It starts from a VM or template whose system was installed in EFI mode and that has a login with sudo.
packer {
  required_plugins {
    vsphere = {
      version = ">= 1.4.2"
      source  = "github.com/hashicorp/vsphere"
    }
  }
}

variable "vcenter_server" {
  type = string
}

variable "vcenter_username" {
  type = string
}

variable "vcenter_password" {
  type      = string
  sensitive = true
}

variable "datacenter" {
  type    = string
  default = "dc1"
}

variable "cluster" {
  type    = string
  default = "gpu"
}

variable "datastore" {
  type    = string
  default = "vsan"
}

variable "folder" {
  type    = string
  default = "templates"
}

variable "network" {
  type    = string
  default = "vm-network"
}

variable "base" {
  type = string
}

variable "name" {
  type    = string
  default = "ubuntu-24.04-efi"
}

variable "ssh_username" {
  type    = string
  default = "ubuntu"
}

variable "ssh_private_key_file" {
  type    = string
  default = "~/.ssh/id_ed25519"
}

source "vsphere-clone" "template" {
  vcenter_server = var.vcenter_server
  username       = var.vcenter_username
  password       = var.vcenter_password
  datacenter     = var.datacenter
  cluster        = var.cluster
  datastore      = var.datastore
  folder         = var.folder

  template = var.base
  vm_name  = var.name
  notes    = "made for vgpu-cfg"
  firmware = "efi"
  CPUs     = 4
  RAM      = 8192
  network  = var.network

  # 32 GiB are enough for driver and container runtime; plans grow it (disks: [{grow: 128GiB}]).
  disk_size = 32768

  communicator         = "ssh"
  ssh_username         = var.ssh_username
  ssh_private_key_file = var.ssh_private_key_file
  shutdown_command     = "sudo shutdown -h now"

  # A template keeps no snapshot: disks that have one do not grow. `clone: linked` needs one.
  create_snapshot     = false
  convert_to_template = true
}

build {
  sources = ["source.vsphere-clone.template"]

  provisioner "shell" {
    execute_command = "sudo sh -eu '{{ .Path }}'"
    inline = [
      "export DEBIAN_FRONTEND=noninteractive",
      "apt-get update",
      "apt-get install -y open-vm-tools cloud-init cloud-guest-utils openssh-server sudo",
      # What NVIDIA's driver is built with, for the kernel that boots next.
      "apt-get install -y gcc make dkms linux-headers-generic",
      # Only VMware's datasource: no other is waited for, and none that finds an ISO or a seed on the disk wins.
      "printf 'datasource_list: [VMware, None]\\n' >/etc/cloud/cloud.cfg.d/99-vgpu-cfg.cfg",
      "printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' >/etc/modprobe.d/blacklist-nouveau.conf",
      "update-initramfs -u",
      # A clone makes its own: host keys, machine id, what cloud-init knows.
      "rm -f /etc/ssh/ssh_host_*",
      "truncate -s 0 /etc/machine-id",
      "cloud-init clean --logs",
      "apt-get clean",
      "sync",
    ]
  }
}
