"""Output of NVIDIA's tools on GPUs, vGPUs, MIG instances and NVLink."""
