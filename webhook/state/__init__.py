"""Where the gate remembers.

The rule of this room: `ports` says what the gate needs, `ledger` is pure transitions, each adapter fulfils a port and
knows no other adapter. `exchange` is what is said on a connection, for whoever asks often.
"""
