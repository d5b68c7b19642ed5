"""The managed objects outside of the inventory: sessions, views, searches, privileges, a host's offers."""
