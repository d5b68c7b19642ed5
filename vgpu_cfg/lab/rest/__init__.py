"""The lab's REST API: JSON next to SOAP, on the same port, with sessions of its own."""
