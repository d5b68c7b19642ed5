"""The VMs of a plan, setting by setting: what each shall be, how it is compared, which edits bring it."""
