// inUnits writes an amount of smallest units as a decimal number of whole tokens.
export function inUnits(amount, decimals) {
  const sign = amount < 0n ? "-" : "";
  const digits = (amount < 0n ? -amount : amount).toString().padStart(decimals + 1, "0");
  const part = digits.slice(digits.length - decimals).replace(/0+$/, "");
  return sign + digits.slice(0, digits.length - decimals) + (decimals && part ? "." + part : "");
}
