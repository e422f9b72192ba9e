// Microphone and loudspeaker of the page: an AudioContext with one worklet at its end.

import { ringMemory } from "./ring.js";

/// The person's choices: the devices, and whether the browser removes echoes.
function constraints({ microphone, plain }) {
  const wanted = {
    channelCount: 1,
    echoCancellation: !plain,
    noiseSuppression: !plain,
    autoGainControl: false, // the client sets the level itself
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
    // the chosen loudspeaker may be gone
    if (choice.speaker) await card.speak_to(choice.speaker).catch(() => {});
    await card.context.resume();
    return card;
  }

  /// Takes a microphone, instead of the earlier one.
  async listen(choice) {
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: constraints(choice) });
    } catch (error) {
      if (!choice.microphone || error.name !== "OverconstrainedError") throw error;
      // the chosen device is gone
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

  /// Changes one after the other: a change during another one can stop the sound.
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

  /// The worker's ends: the rings, and the channel for messages.
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

  /// The present devices: [{kind, id, label}].
  static async devices() {
    const all = (await navigator.mediaDevices?.enumerateDevices?.()) ?? [];
    return all.map(({ kind, deviceId, label }) => ({ kind, id: deviceId, label }));
  }
}
