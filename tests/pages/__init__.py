"""The pages, opened in a real Chromium and judged by axe-core."""
