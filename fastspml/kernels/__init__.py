"""Every compiled function of fastspml, one file a role; flat arrays in, numbers out, no classes, no I/O."""
