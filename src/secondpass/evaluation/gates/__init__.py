"""Gates: which queries need the second pass, learned from rankings of a suite."""
