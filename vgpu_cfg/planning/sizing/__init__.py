"""What would a model take to be trained: memory, GPUs, network, time, the room? All is an estimate."""
