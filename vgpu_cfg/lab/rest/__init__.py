"""The lab's REST side: JSON beside SOAP, on the same port, with sessions of its own."""
