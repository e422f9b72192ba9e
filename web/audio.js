// Microphone and loudspeaker of the page: an AudioContext with one worklet at its end.

import { ringMemory } from "./ring.js";

/// What a person may want to keep: the devices, and whether the browser takes echoes out.
function constraints({ microphone, plain }) {
  const wanted = {
    channelCount: 1,
    echoCancellation: !plain,
    noiseSuppression: !plain,
    autoGainControl: false, // the client levels by itself
  };
  if (microphone) wanted.deviceId = { exact: microphone };
  return wanted;
}

export class SoundCard {
  static async open(choice, speak) {
    const card = new SoundCard();
    card.context = new AudioContext({ latencyHint: "interactive" });
    await card.context.audioWorklet.addModule(new URL("ends.js", import.meta.url));
    const shared = globalThis.crossOriginIsolated === true;
    card.rings = { capture: shared ? ringMemory() : null, playback: shared ? ringMemory() : null };
    card.node = new AudioWorkletNode(card.context, "tobari-ends", {
      numberOfInputs: 1,
      numberOfOutputs: 1,
      outputChannelCount: [1],
      channelCount: 1,
      channelCountMode: "explicit",
      processorOptions: card.rings,
    });
    card.node.connect(card.context.destination);
    if (speak) await card.listen(choice);
    // the loudspeaker that was chosen may not be there any more
    if (choice.speaker) await card.speak_to(choice.speaker).catch(() => {});
    await card.context.resume();
    return card;
  }

  /// Takes a microphone, in the place of the one before.
  async listen(choice) {
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: constraints(choice) });
    } catch (error) {
      if (!choice.microphone || error.name !== "OverconstrainedError") throw error;
      // the device that was chosen is not there any more
      stream = await navigator.mediaDevices.getUserMedia({ audio: constraints({ ...choice, microphone: "" }) });
    }
    this.silence();
    this.stream = stream;
    this.source = this.context.createMediaStreamSource(stream);
    this.source.connect(this.node);
  }

  silence() {
    this.source?.disconnect();
    this.stream?.getTracks().forEach((track) => track.stop());
    this.source = this.stream = null;
  }

  /// One change after the other: a second one in the midst of the first can leave the sound standing still.
  speak_to(speaker) {
    const change = async () => {
      if (this.context.setSinkId) await this.context.setSinkId(speaker);
      if (this.context.state === "suspended") await this.context.resume();
    };
    this.changing = (this.changing ?? Promise.resolve()).catch(() => {}).then(change);
    return this.changing;
  }

  get rate() {
    return Math.round(this.context.sampleRate);
  }

  /// The worker's side: rings, and the way of messages.
  ends() {
    const { port1, port2 } = new MessageChannel();
    this.node.port.postMessage(port2, [port2]);
    return { port: port1, ...this.rings };
  }

  async close() {
    this.silence();
    this.node?.disconnect();
    await this.context?.close().catch(() => {});
  }

  /// Devices that there are: [{kind, id, label}].
  static async devices() {
    const all = (await navigator.mediaDevices?.enumerateDevices?.()) ?? [];
    return all.map(({ kind, deviceId, label }) => ({ kind, id: deviceId, label }));
  }
}
