// Functions of all kinds of D names: methods, templates, functions in functions, exceptions.
module shop.cart;

import core.stdc.stdio;

struct Item
{
    int price, count;
}

class Basket
{
    Item[] items;
    __gshared long calls;

    final void add(Item i)
    {
        calls++;
        items ~= i;
    }

    long total() const
    {
        calls++;
        long t = 0;
        foreach (i; items)
            t += price(i);
        return t;
    }

    static long price(const Item i)
    {
        calls++;
        return cast(long) i.price * i.count;
    }

    T scaled(T)(T x)
    {
        calls++;
        return cast(T)(x * 2 + total());
    }
}

int thrown(int n)
{
    Basket.calls++;
    if (n % 3 == 0)
        throw new Exception("no");
    return n;
}

int caught(int n)
{
    Basket.calls++;
    try
        return thrown(n);
    catch (Exception e)
        return -1;
}

void main()
{
    auto b = new Basket;
    foreach (i; 0 .. 10)
        b.add(Item(i, i + 1));
    long s = 0;
    foreach (i; 0 .. 30)
        s += b.scaled!long(i) + b.scaled!int(i);
    foreach (i; 0 .. 30)
        s += caught(i);
    printf("total %ld of %ld calls\n", s, Basket.calls);
}
