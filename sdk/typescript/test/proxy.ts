import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** A TCP proxy in front of a server, which cuts connections as a bad network does: in the midst of a frame. */
export class CuttingProxy {
  readonly #server = createServer((from) => {
    this.#pipe(from);
  });
  readonly #target: URL;
  readonly #open = new Set<Socket>();
  #bytes = 0;
  #left = 0;
  #port = 0;
  /** Connections that were cut. */
  cuts = 0;

  constructor(target: string) {
    this.#target = new URL(target);
  }

  async listen(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Cuts each of the next connections that carry a WebSocket, times in all, once it has brought that many bytes to the client. */
  cutAfter(bytes: number, times: number): void {
    this.#bytes = bytes;
    this.#left = times;
    this.cuts = 0;
  }

  /** The server is away: connections end, and new ones are refused. */
  async away(): Promise<void> {
    this.#port = (this.#server.address() as AddressInfo).port;
    await this.close();
  }

  /** It is there again, at the same address. */
  async back(): Promise<void> {
    this.#server.listen(this.#port, "127.0.0.1");
    await once(this.#server, "listening");
  }

  async close(): Promise<void> {
    for (const s of this.#open) s.destroy();
    this.#server.close();
    await once(this.#server, "close");
  }

  #pipe(from: Socket): void {
    const to = connect(Number(this.#target.port), this.#target.hostname);
    for (const s of [from, to]) {
      this.#open.add(s);
      s.on("error", () => undefined);
      s.on("close", () => {
        this.#open.delete(s);
        from.destroy();
        to.destroy();
      });
    }
    let upgraded = false;
    let brought = 0;
    from.on("data", (data: Buffer) => {
      upgraded ||= /^upgrade: *websocket/im.test(data.toString("latin1"));
      to.write(data);
    });
    to.on("data", (data: Buffer) => {
      brought += data.length;
      if (upgraded && this.#left > 0 && brought > this.#bytes) {
        this.#left--;
        this.cuts++;
        from.end(data.subarray(0, Math.max(0, data.length - (brought - this.#bytes)))); // the begin of a frame
        to.destroy();
        return;
      }
      if (!from.write(data)) {
        to.pause();
        from.once("drain", () => to.resume());
      }
    });
    from.on("end", () => to.end());
    to.on("end", () => from.end());
  }
}
