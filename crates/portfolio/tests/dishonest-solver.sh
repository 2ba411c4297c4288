#!/bin/sh
# A solver that puts everybody on the first unit, says that this costs nothing, and that nothing is better.
read -r terms
read -r job
echo '{"Model":{"places":[0,0],"sums":[1,1,1,1]}}'
echo '{"End":"Proven"}'
while read -r line; do :; done
