"""Plans of the admin client: what operators ask and change."""
