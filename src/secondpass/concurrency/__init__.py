"""Threads, event loops, locks and turns, safe against interrupts and forks."""
