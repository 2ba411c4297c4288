#!/bin/sh
# A judge that counts otherwise: whatever is asked, nothing is broken, and it costs 7.
echo '{"Ok":{"violated":[],"penalties":[{"n":7}],"broken":[]}}'
