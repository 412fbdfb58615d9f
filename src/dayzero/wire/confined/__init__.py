"""Work on what nobody has vetted, in processes of its own: `pool` is the outside of them, `worker` the inside."""
