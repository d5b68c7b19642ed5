"""The vSphere API types of the lab: versions, references, values as XML."""
