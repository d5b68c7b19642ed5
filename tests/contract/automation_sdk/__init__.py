"""The REST API for images of clusters, as VMware's Automation SDK knows it."""
