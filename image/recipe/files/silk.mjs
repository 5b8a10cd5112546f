import silk from "./index.cjs";

export const { show, Result } = silk;
export default silk;
