"""What a person does with pictures and trained scenes: refocus, render, view, export."""
