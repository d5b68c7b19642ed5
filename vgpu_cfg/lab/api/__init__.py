"""What of the vSphere API's types the lab speaks: versions, references, values as XML."""
