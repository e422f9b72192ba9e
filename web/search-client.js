// A client that asks a table: the WebAssembly module with feature `ask`.

import { Module } from "./module.js";

const encoder = new TextEncoder();

export class Search extends Module {
  /// 16 bytes: this client's name, for servers that let clients choose names.
  name() {
    return this.output(this.exports.tobari_search_name());
  }

  /// Takes the description of a table.
  table(told) {
    return this.told("search_table", told);
  }

  /// Sites of the table from `at` on.
  sites(at, count) {
    return this.told("search_sites", encoder.encode(JSON.stringify({ at, count })));
  }

  /// Prepares a question. Returns the parts that the server will see.
  prepare(wanted) {
    return this.told("search_prepare", encoder.encode(JSON.stringify(wanted)));
  }

  /// The request for the evaluation of the prepared question, on a server with labels.
  evaluation(name) {
    const request = this.output(this.call("search_evaluation", name));
    if (request === null) throw new Error("the question cannot be evaluated");
    return request;
  }

  /// Takes the reply to the evaluation.
  evaluated(reply) {
    return this.told("search_evaluated", reply);
  }

  /// Takes the server's layout for the prepared question, if its place hides.
  layout(bytes) {
    return this.told("search_layout", bytes);
  }

  registration() {
    return this.output(this.exports.tobari_search_registration());
  }

  query(name) {
    const query = this.output(this.call("search_query", name));
    if (query === null) throw new Error("the question cannot be encrypted");
    return query;
  }

  answer(bytes) {
    return this.told("search_answer", bytes);
  }

  renew() {
    this.exports.tobari_search_renew();
  }
}
