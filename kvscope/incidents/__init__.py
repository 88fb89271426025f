"""The last minutes, kept in memory and saved with what follows when something happened."""
