-- Two tables and a question, in memory: silk run examples/labs/text/join.sql
CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT, year INTEGER);
CREATE TABLE loan (book INTEGER REFERENCES book, days INTEGER);
INSERT INTO book VALUES (1, 'Middlemarch', 1871), (2, 'Ulysses', 1922), (3, 'Dune', 1965);
INSERT INTO loan VALUES (1, 14), (1, 30), (3, 7), (3, 9), (3, 21);
SELECT title, count(book) AS loans, coalesce(sum(days), 0) AS days FROM book LEFT JOIN loan ON book.id = loan.book GROUP BY book.id ORDER BY days DESC;
