"""What was measured, for people: tables, pictures, and both in one HTML file."""
