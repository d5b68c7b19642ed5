"""The GPUs of an estate as a pool: running VMs, free and stranded capacity, and remaining room."""
