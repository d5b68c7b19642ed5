"""What the tools of NVIDIA print on a host: nvidia-smi, mlxconfig, mst. Guests share the layouts."""
