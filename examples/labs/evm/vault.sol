// SPDX-License-Identifier: Apache-2.0
// Functions test*() are tests, each on a fresh chain after setUp(): silk run examples/labs/evm/vault.sol
pragma solidity ^0.8.24;

contract Vault {
    mapping(address => uint256) public balances;

    error TooMuch(uint256 asked, uint256 there);

    function deposit() external payable {
        balances[msg.sender] += msg.value;
    }

    function withdraw(uint256 amount) external {
        uint256 there = balances[msg.sender];
        if (amount > there) revert TooMuch(amount, there);
        balances[msg.sender] = there - amount; // before anything is sent: whoever receives may call back
        (bool sent, ) = msg.sender.call{value: amount}("");
        require(sent, "the receiver refused");
    }
}

contract Impatient {
    Vault immutable vault;

    constructor(Vault v) {
        vault = v;
    }

    function begin() external payable {
        vault.deposit{value: msg.value}();
        vault.withdraw(msg.value);
    }

    receive() external payable {
        if (address(vault).balance > 0) vault.withdraw(msg.value); // once more, before the first is over
    }
}

contract VaultTest {
    Vault vault;

    constructor() payable {}

    function setUp() external {
        vault = new Vault();
    }

    function testStartsEmpty() external view {
        assert(vault.balances(address(this)) == 0);
        assert(address(vault).balance == 0);
    }

    function testRefusesMoreThanIsThere() external {
        try vault.withdraw(5) {
            revert("the vault gave what it did not have");
        } catch (bytes memory why) {
            assert(bytes4(why) == Vault.TooMuch.selector);
        }
    }

    function testNothingIsLostOnTheWay() external {
        vault.deposit{value: 0}();
        vault.withdraw(0);
        assert(address(vault).balance == 0);
    }

    function testCallingBackGainsNothing() external {
        Impatient impatient = new Impatient(vault);
        impatient.begin();
        assert(address(impatient).balance == 0);
    }

    receive() external payable {}
}
