"""Output of NVIDIA's tools on a host: nvidia-smi, mlxconfig, mst. Guests share the layouts."""
