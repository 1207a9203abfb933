"""The world: hardware, costs, tenants, offers, leases, clearing, money and the week. It knows no strategy."""
