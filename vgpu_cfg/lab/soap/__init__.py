"""The wire of the lab: SOAP bytes in, SOAP bytes out, and the HTTPS server in front of them."""
