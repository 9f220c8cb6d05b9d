`stomprelay reload` names each key that changed, also those in tables within tables: `listener.public.limits.body` in place of `listener.public.limits`.
