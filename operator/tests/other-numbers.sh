#!/bin/sh
# A judge that counts otherwise: whatever is asked, nothing is broken, and it costs 7.
echo '{"Ok":{"violated":[],"penalties":[[0,{"n":7}]],"broken":[]}}'
