"""What was found, as data and as text; knows neither torch nor the hooks."""
