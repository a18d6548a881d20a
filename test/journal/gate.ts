/** Lets calls pass until `close`, and then holds them back until `open`. */
export class Gate {
  private opened = Promise.resolve();
  open: () => void = () => undefined;

  close(): void {
    this.opened = new Promise((resolve) => {
      this.open = resolve;
    });
  }

  async pass<Result>(act: () => Promise<Result>): Promise<Result> {
    await this.opened;
    return act();
  }
}
