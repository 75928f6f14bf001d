"""The colder tiers: object stores, hand-off from live to cold, deep archive, and what each costs."""
