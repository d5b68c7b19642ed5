"""The managed objects that are no inventory: sessions, views, searches, privileges, what a host offers."""
