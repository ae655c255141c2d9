"""Key-value buckets as data: names, configurations, entries, status. No I/O."""
