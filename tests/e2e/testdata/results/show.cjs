const { show } = require("silk");

const state = show("1 of 2");
show([{ a: 1 }, { b: undefined, c: 10n }]);
show("<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml");
state.update([1]).update("2 of 2");
const self = {};
self.self = self;
show(self);
