`stomprelay drain` has a relay refuse new clients, tells `/readyz`, and waits until no session is left; `--cancel` lets clients in again.
