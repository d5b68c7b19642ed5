"""What NVIDIA's tools print of GPUs, vGPUs, MIG instances and NVLink."""
