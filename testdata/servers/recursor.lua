-- @ADVICE@ is what `tapflow serve` prints for PowerDNS Recursor.
@ADVICE@
