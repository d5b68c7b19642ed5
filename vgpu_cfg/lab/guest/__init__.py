"""The guests of simulated VMs: how they boot, what cloud-init does in them, and who may log in."""
