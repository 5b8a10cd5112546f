// SPDX-License-Identifier: Apache-2.0
// Without tests a contract is deployed, called, and shown:
// silk run examples/labs/evm/counter.sol -- --call 'add(40)' --call 'add(2)'
pragma solidity ^0.8.24;

contract Counter {
    uint256 public total;
    address public last;

    event Added(address indexed by, uint256 amount);

    function add(uint256 amount) external returns (uint256) {
        require(amount > 0, "nothing to add");
        total += amount;
        last = msg.sender;
        emit Added(msg.sender, amount);
        return total;
    }
}
