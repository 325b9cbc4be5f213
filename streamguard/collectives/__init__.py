"""What the ranks of a job send each other: recorded, audited against theory, compared."""
