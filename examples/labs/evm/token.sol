// SPDX-License-Identifier: Apache-2.0
// A token with a fault, and the test that finds it: silk run examples/labs/evm/token.sol
pragma solidity ^0.8.24;

contract Token {
    mapping(address => uint256) public balanceOf;
    uint256 public totalSupply;

    event Transfer(address indexed from, address indexed to, uint256 value);

    constructor(uint256 supply) {
        balanceOf[msg.sender] = totalSupply = supply;
    }

    function transfer(address to, uint256 value) external {
        require(balanceOf[msg.sender] >= value, "balance too low");
        balanceOf[msg.sender] -= value;
        balanceOf[to] += value;
        emit Transfer(msg.sender, to, value);
    }

    function burn(uint256 value) external {
        require(balanceOf[msg.sender] > value, "balance too low"); // the fault: all of it cannot be burnt
        balanceOf[msg.sender] -= value;
        totalSupply -= value;
        emit Transfer(msg.sender, address(0), value);
    }
}

contract TokenTest {
    Token token;

    function setUp() external {
        token = new Token(1000);
    }

    function testTransferMovesTokens() external {
        token.transfer(address(0xBEEF), 400);
        assert(token.balanceOf(address(0xBEEF)) == 400 && token.balanceOf(address(this)) == 600);
    }

    function testBurnSome() external {
        token.burn(999);
        assert(token.totalSupply() == 1);
    }

    function testBurnAll() external {
        token.burn(1000);
        assert(token.totalSupply() == 0);
    }
}
