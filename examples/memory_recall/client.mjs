// Rerank from Node: `secondpass rerank --batch 1` as a long-running process.
//
//     const reranker = new Reranker("--preset", "blended_scores");
//     const { ranking, report } = await reranker.rerank("What should I cook for Ana?", memories);
//
// Memories are objects with `id`, `content` and `score`, the original score.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

export class Reranker {
  #process;
  #lines;
  #problem = "secondpass rerank has ended; its standard error says why";
  #previous = Promise.resolve();

  constructor(...options) {
    const command = ["rerank", "--batch", "1", "--quiet", ...options];
    this.#process = spawn("secondpass", command, { stdio: ["pipe", "pipe", "inherit"] });
    this.#process.on("error", (error) => (this.#problem = error.message)); // not installed
    this.#process.stdin.on("error", () => {}); // it has ended, which the next read reports
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
  }

  // One request at a time: rankings come in the order of the requests.
  rerank(query, candidates, settings = {}) {
    const result = this.#previous.then(() => this.#exchange({ query, candidates, ...settings }));
    this.#previous = result.catch(() => {});
    return result;
  }

  async #exchange(request) {
    this.#process.stdin.write(JSON.stringify(request) + "\n");
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(this.#problem);
    return JSON.parse(value);
  }

  close() {
    this.#process.stdin.end();
  }
}
